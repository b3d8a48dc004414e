-- The library of an invented reader. Days are written 2026-10-28.

-- shelf: finished | reading | want; "on": the day it was finished, begun or wished for;
-- rating: 1 to 5, of finished books; page: how far a book is that is being read.
CREATE TABLE books (shelf, "on", title, author, pages, genre, rating, page);

INSERT INTO books (shelf, "on", title, author, pages, genre, rating) VALUES
    ('finished', '2026-10-28', 'Piranesi', 'Susanna Clarke', 245, 'speculative', 5),
    ('finished', '2026-10-11', 'The Remains of the Day', 'Kazuo Ishiguro', 245, 'literary', 5),
    ('finished', '2026-09-20', 'Pachinko', 'Min Jin Lee', 490, 'historical', 4),
    ('finished', '2026-08-30', 'The Left Hand of Darkness', 'Ursula K. Le Guin', 304, 'speculative', 4),
    ('finished', '2026-08-12', 'A Psalm for the Wild-Built', 'Becky Chambers', 147, 'speculative', 4),
    ('finished', '2026-08-03', 'Middlemarch', 'George Eliot', 880, 'literary', 5),
    ('finished', '2026-06-07', 'Braiding Sweetgrass', 'Robin Wall Kimmerer', 391, 'nature', 4),
    ('finished', '2026-05-16', 'Station Eleven', 'Emily St. John Mandel', 333, 'speculative', 3),
    ('finished', '2026-04-29', 'Stoner', 'John Williams', 288, 'literary', 5),
    ('finished', '2026-04-04', 'Hamnet', 'Maggie O''Farrell', 372, 'historical', 4),
    ('finished', '2026-03-15', 'Circe', 'Madeline Miller', 393, 'speculative', 3),
    ('finished', '2026-02-21', 'Never Let Me Go', 'Kazuo Ishiguro', 288, 'speculative', 4),
    ('finished', '2026-02-02', 'The Overstory', 'Richard Powers', 502, 'literary', 3),
    ('finished', '2026-01-10', 'H is for Hawk', 'Helen Macdonald', 300, 'nature', 4);

INSERT INTO books (shelf, "on", title, author, pages, genre, page) VALUES
    ('reading', '2026-11-02', 'Wolf Hall', 'Hilary Mantel', 650, 'historical', 212),
    ('reading', '2026-11-14', 'The Peregrine', 'J. A. Baker', 191, 'nature', 40);

INSERT INTO books (shelf, "on", title, author, pages, genre) VALUES
    ('want', '2026-11-20', 'The Tartar Steppe', 'Dino Buzzati', 198, 'literary'),
    ('want', '2026-11-16', 'Invisible Cities', 'Italo Calvino', 165, 'speculative'),
    ('want', '2026-11-09', 'Small Things Like These', 'Claire Keegan', 114, 'literary'),
    ('want', '2026-10-30', 'Jonathan Strange & Mr Norrell', 'Susanna Clarke', 782, 'speculative'),
    ('want', '2026-10-29', 'The Invention of Morel', 'Adolfo Bioy Casares', 103, 'speculative'),
    ('want', '2026-10-12', 'The Buried Giant', 'Kazuo Ishiguro', 317, 'speculative'),
    ('want', '2026-09-27', 'Train Dreams', 'Denis Johnson', 116, 'historical'),
    ('want', '2026-09-21', 'The Memory Police', 'Yoko Ogawa', 274, 'speculative'),
    ('want', '2026-09-02', 'The Lathe of Heaven', 'Ursula K. Le Guin', 184, 'speculative'),
    ('want', '2026-08-18', 'The Summer Book', 'Tove Jansson', 170, 'literary'),
    ('want', '2026-08-05', 'Silas Marner', 'George Eliot', 200, 'literary'),
    ('want', '2026-07-14', 'Gilead', 'Marilynne Robinson', 247, 'literary'),
    ('want', '2026-06-22', 'The Living Mountain', 'Nan Shepherd', 108, 'nature'),
    ('want', '2026-06-01', 'Convenience Store Woman', 'Sayaka Murata', 163, 'literary'),
    ('want', '2026-05-19', 'The Sense of an Ending', 'Julian Barnes', 150, 'literary'),
    ('want', '2026-04-11', 'Butcher''s Crossing', 'John Williams', 274, 'historical'),
    ('want', '2026-03-08', 'The Secret History', 'Donna Tartt', 559, 'literary'),
    ('want', '2026-01-25', 'The Outermost House', 'Henry Beston', 222, 'nature');

-- What the reader thought.
CREATE TABLE notes ("on", title, text);

INSERT INTO notes VALUES
    ('2026-10-28', 'Piranesi', 'A whole house of tides and statues, told by the kindest narrator I know. I wanted to stay.'),
    ('2026-10-19', 'Piranesi', 'First hundred pages: I have no idea where we are, and I do not mind.'),
    ('2026-10-11', 'The Remains of the Day', 'He never says it, so it hurts all the more. The scene on the pier undid me.'),
    ('2026-10-04', 'The Remains of the Day', 'Slow at first. The dry humour carries it until you see what he leaves out.'),
    ('2026-09-20', 'Pachinko', 'Four generations in one breath. The first half is the better one.'),
    ('2026-08-30', 'The Left Hand of Darkness', 'The walk over the ice is the best chapter I read this year.'),
    ('2026-08-12', 'A Psalm for the Wild-Built', 'A cup of tea in the form of a book. Read in two evenings.'),
    ('2026-08-03', 'Middlemarch', 'Two months well spent. I shall miss Dorothea, and even Casaubon.'),
    ('2026-05-16', 'Station Eleven', 'Lovely pieces that never quite became a whole for me.'),
    ('2026-04-29', 'Stoner', 'An ordinary life, and I could not put it down.'),
    ('2026-03-15', 'Circe', 'Good company, but too many visitors on that island.'),
    ('2026-02-21', 'Never Let Me Go', 'The quiet is the horror.');

CREATE TABLE profile (name, favourite_genres, likes, dislikes, pages_per_day, goal_books_per_year);

INSERT INTO profile VALUES (
    'Robin', 'literary, speculative', 'quiet books, odd places, narrators who do not see everything',
    'cliffhangers, anything sold as a thriller', 35, 24
);
